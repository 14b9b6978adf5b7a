// Not a module: modules run later, and the page would flash in the wrong colours.
{
  const theme = localStorage.getItem("andornot-theme");
  if (theme) document.documentElement.dataset.theme = theme;
}
