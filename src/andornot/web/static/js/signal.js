/** Something that happens, and those who want to know. */
export function signal() {
  const listeners = new Set();
  return {
    /** Calls `listener` each time; what is returned ends that. */
    on(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    send(value) {
      // Of a copy: a listener may end or bring others.
      for (const listener of [...listeners]) listener(value);
    },
  };
}
