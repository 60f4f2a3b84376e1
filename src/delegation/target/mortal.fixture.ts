/**
 * Wraps a dependency of a manager that can be killed, to have the effect of kill -9 within one process: after `death`,
 * calls have no effect and never resolve. Calls that began before may still have an effect; they are in `underWay`.
 */
export function mortal<T extends object>(thing: T, death: AbortSignal, underWay = new Set<unknown>()): T {
  return new Proxy(thing, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...given: unknown[]) => {
        if (death.aborted) return never();
        const result: unknown = Reflect.apply(value, target, given);
        if (result instanceof Promise) {
          underWay.add(result);
          const over = () => underWay.delete(result);
          result.then(over, over);
          return result.then(unless(death), unless(death, true));
        }
        return isIterable(result) ? untilDeath(result, death) : result;
      };
    },
  });
}

const never = () => new Promise<never>(() => {});

const unless =
  (death: AbortSignal, failed = false) =>
  (value: unknown) => {
    if (death.aborted) return never();
    if (failed) throw value;
    return value;
  };

async function* untilDeath(source: AsyncIterable<unknown>, death: AbortSignal): AsyncGenerator {
  for await (const each of source) {
    if (death.aborted) await never();
    yield each;
  }
  if (death.aborted) await never();
}

const isIterable = (value: unknown): value is AsyncIterable<unknown> =>
  typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
