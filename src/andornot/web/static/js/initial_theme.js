// Not a module, because those run late, and the page would flash in the other colours.
{
  const theme = localStorage.getItem("andornot-theme");
  if (theme) document.documentElement.dataset.theme = theme;
}
