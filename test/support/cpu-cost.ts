import assert from 'node:assert/strict';

/** Twice the size may cost this much: 2 for the size, the rest for caches and for sorting. A quadratic cost is 4. */
const MOST = 2.5;

/** A cost that harms nobody, and that the clock is too coarse to compare. */
const CHEAP_MS = 15;

/** The tick of the clock for CPU time: two costs may be this much further apart. */
const TICK_MS = 10;

/** How often the two costs are measured before they count as too far apart. Interruptions only ever add to a cost. */
const ROUNDS = 15;

/**
 * Asserts that an input of twice the size costs at most 2.5 times the CPU. It compares the CPU time of this thread, the lowest
 * of several runs, so that it does not depend on what else the machine does. An input that is cheap at its full size passes.
 */
export async function assertLinearCost(
  about: string,
  half: () => unknown,
  whole: () => unknown,
  cheapMs = CHEAP_MS,
): Promise<void> {
  let [least, twice] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let round = 0; round < ROUNDS; round++) {
    twice = Math.min(twice, await cpuMs(whole));
    if (twice <= cheapMs) return;
    least = Math.min(least, await cpuMs(half));
    if (twice <= MOST * least + TICK_MS) return;
  }
  assert.fail(`${about}: ${least.toFixed(1)} ms of CPU, and ${twice.toFixed(1)} ms for twice the size`);
}

async function cpuMs(run: () => unknown): Promise<number> {
  const begun = process.threadCpuUsage();
  await run();
  const { user, system } = process.threadCpuUsage(begun);
  return (user + system) / 1_000;
}

/** Texts of which many are slow for a matcher that backtracks, or for a loop that searches from every position. */
export const HOSTILE_TEXTS: readonly ((length: number) => string)[] = [
  'a',
  '/',
  ' ',
  '-',
  '0',
  '.',
  'a/',
  'a.',
  '\n',
  'é',
]
  .flatMap((unit) => [(length: number) => unit.repeat(length / unit.length)])
  .flatMap((repeat) => [repeat, (length: number) => `a${repeat(length - 2)}!`]);

/** The part of JSON Schema that the routes use. */
interface Shape {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly patternProperties?: Readonly<Record<string, Shape>>;
  readonly items?: Shape;
  readonly enum?: readonly string[];
}

/** One list, map or text of a schema, which can be given any size. */
export interface GrowingInput {
  /** `input[].path` */
  readonly path: string;
  readonly kind: 'list' | 'map' | 'text';
  /** A document in which this has `length` entries or characters, and nothing else is set. */
  readonly build: (length: number) => unknown;
}

/** Every list, map and text of a schema, with hostile contents. */
export function* growingInputs(schema: unknown): Generator<GrowingInput> {
  yield* inputsAt(schema as Shape, '', (value) => value);
}

function* inputsAt(shape: Shape, path: string, wrap: (value: unknown) => unknown): Generator<GrowingInput> {
  const input = (kind: GrowingInput['kind'], make: (length: number) => unknown): GrowingInput => ({
    path,
    kind,
    build: (length) => wrap(make(length)),
  });
  const [values] = Object.values(shape.patternProperties ?? {});
  if (shape.type === 'string') {
    for (const text of HOSTILE_TEXTS) yield input('text', text);
  } else if (shape.type === 'array' && shape.items) {
    const { items } = shape;
    yield input('list', (length) => Array.from({ length }, (_, index) => sample(items, index)));
    yield input('list', (length) => Array.from({ length }, () => sample(items, 0)));
    yield* inputsAt(items, `${path}[]`, (value) => wrap([value]));
  } else if (values) {
    for (const key of ['k', 'no name! ']) {
      const keys = (length: number) => Array.from({ length }, (_, index) => [`${key}${index}`, sample(values, index)]);
      yield input('map', (length) => Object.fromEntries(keys(length)));
    }
    yield* inputsAt(values, `${path}.*`, (value) => wrap({ k: value }));
  } else {
    for (const [name, property] of Object.entries(shape.properties ?? {})) {
      yield* inputsAt(property, path === '' ? name : `${path}.${name}`, (value) => wrap({ [name]: value }));
    }
  }
}

function sample({ type, properties, patternProperties, items, enum: [first] = [] }: Shape, index: number): unknown {
  switch (type) {
    case 'string':
      return first || `x${index}`;
    case 'integer':
    case 'number':
      return index;
    case 'boolean':
      return true;
    case 'array':
      return items ? [sample(items, index)] : [];
    default: {
      const [values] = Object.values(patternProperties ?? {});
      if (values) return { [`k${index}`]: sample(values, index) };
      const fields = Object.entries(properties ?? {}).map(([name, field]) => [name, sample(field, index)]);
      return Object.fromEntries(fields);
    }
  }
}
