"""Random formulas, for hypothesis: terms as text, conditions as trees and as text."""

from hypothesis import strategies as st

NAMES = ("a", "b", "c", "d")


# ("term", text), ("weight", factor, text), ("not", tree), ("and", tree, tree) or ("or", tree, tree).
Tree = tuple
WEIGHTS = (0.001, 0.5, 1, 2, 3.25, 1000)


def formulas(names=NAMES, *, counting=True, like=False, leaves=12) -> st.SearchStrategy[str]:
    """Texts of formulas over some names, with more brackets than needed."""

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        branches = [
            inner.map(lambda f: f"~({f})"),
            st.tuples(inner, st.sampled_from("|&-"), inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        ]
        if counting:
            several = st.lists(inner, min_size=1, max_size=4)
            branches.append(several.flatmap(lambda fs: st.integers(1, len(fs)).map(lambda k: _at_least(k, fs))))
        if like:
            branches.append(st.lists(inner, min_size=1, max_size=3).map(lambda fs: f"like({', '.join(fs)})"))
        return st.one_of(branches)

    return st.recursive(st.sampled_from(names), grow, max_leaves=leaves)


def _at_least(k: int, operands: list[str]) -> str:
    return f"at_least({k}, {', '.join(operands)})"


def conditions(terms: st.SearchStrategy[str], *, leaves=12) -> st.SearchStrategy[Tree]:
    """Trees of conditions over terms."""
    weighted = st.tuples(st.just("weight"), st.sampled_from(WEIGHTS), terms)
    return st.recursive(
        st.one_of(st.tuples(st.just("term"), terms), weighted),
        lambda inner: st.one_of(
            st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), inner, inner)
        ),
        max_leaves=leaves,
    )


def written(tree: Tree) -> str:
    """The text of a condition, with more brackets than needed."""
    match tree:
        case "term", text:
            return text
        case "weight", factor, text:
            return f"{factor}*({text})"
        case "not", inner:
            return f"not ({written(inner)})"
        case word, left, right:
            return f"({written(left)}) {word} ({written(right)})"
    raise AssertionError(tree)
