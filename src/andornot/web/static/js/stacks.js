/** Hits that are nearly the same, copies and bursts, lie in a stack under the first of them. */

/**
 * @typedef {{hit: object, others: object[], isOpen: boolean, isInside: boolean, isWeak: boolean}} Stacked
 *   A hit of the grid, and those that lie under it. `isInside`: it is one of an open stack, and not the first.
 *   `isWeak`: so is the first of its stack.
 */

/**
 * The hits that are to be seen, in their order; those of an open stack follow its first.
 * @param {{id: number, stacked_on: ?number}[]} hits
 * @param {Set<number>} open  the first hits of the stacks that are open
 * @returns {Stacked[]}
 */
export function stacked(hits, open) {
  const stacks = new Map();
  const firstOf = new Map();
  for (const hit of hits) {
    const first = firstOf.get(hit.stacked_on) ?? hit.id;
    firstOf.set(hit.id, first);
    if (first === hit.id) stacks.set(first, { hit, others: [] });
    else stacks.get(first).others.push(hit);
  }
  return [...stacks.values()].flatMap(({ hit, others }) => {
    const isOpen = open.has(hit.id);
    const isWeak = hit.is_weak;
    const inside = isOpen ? others : [];
    return [
      { hit, others, isOpen, isInside: false, isWeak },
      ...inside.map((other) => ({ hit: other, others: [], isOpen: false, isInside: true, isWeak })),
    ];
  });
}
