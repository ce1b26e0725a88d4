/** Stores a value under a key. If the browser forbids storage, the value ends with the page. */
export function createStore<Value>(getStorage: () => Storage, key: string) {
  return {
    save: (value: Value | null): void => {
      try {
        if (value === null) {
          getStorage().removeItem(key);
        } else {
          getStorage().setItem(key, JSON.stringify(value));
        }
      } catch {}
    },
    read: (): Value | null => {
      try {
        return JSON.parse(getStorage().getItem(key) ?? 'null');
      } catch {
        return null;
      }
    },
  };
}
