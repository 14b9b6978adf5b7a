/** An event with listeners. */
export function signal() {
  const listeners = new Set();
  return {
    /** Calls `listener` on each event; returns a function that removes it. */
    on(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    send(value) {
      // Iterate over a copy, because listeners may add or remove others.
      for (const listener of [...listeners]) listener(value);
    },
  };
}
