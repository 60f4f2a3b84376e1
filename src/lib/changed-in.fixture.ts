/** The same thing, where some calls do something else. */
export function changedIn<T extends object>(target: T, changed: Partial<T>): T {
  return new Proxy(target, {
    get(_, name) {
      const value = Reflect.get(name in changed ? changed : target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
