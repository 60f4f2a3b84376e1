/** A list that counts how often something is read of it or of its entries: what takes quadratic time reads quadratically. */
export function countReads<T extends object>(list: readonly T[]): { readonly list: T[]; readonly reads: () => number } {
  let reads = 0;
  const counted = <O extends object>(object: O): O =>
    new Proxy(object, {
      get: (target, key, receiver) => {
        reads++;
        return Reflect.get(target, key, receiver);
      },
    });
  return { list: counted(list.map(counted)), reads: () => reads };
}
