"""Random formulas as text, for hypothesis."""

from hypothesis import strategies as st

NAMES = ("a", "b", "c", "d")


def formulas(names=NAMES, *, counting=True, leaves=12) -> st.SearchStrategy[str]:
    """Texts of formulas over some names, with more brackets than needed."""

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        branches = [
            inner.map(lambda f: f"~({f})"),
            st.tuples(inner, st.sampled_from("|&-"), inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        ]
        if counting:
            several = st.lists(inner, min_size=1, max_size=4)
            branches.append(several.flatmap(lambda fs: st.integers(1, len(fs)).map(lambda k: _at_least(k, fs))))
        return st.one_of(branches)

    return st.recursive(st.sampled_from(names), grow, max_leaves=leaves)


def _at_least(k: int, operands: list[str]) -> str:
    return f"at_least({k}, {', '.join(operands)})"
