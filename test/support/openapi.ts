import * as fc from 'fast-check';
import { Compile } from 'typebox/schema';

/* The OpenAPI document as tests use it: its operations, values that its schemas allow or forbid, and checks of answers. */

export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
  readonly items?: Schema;
  readonly $comment?: string;
  readonly pattern?: string;
  readonly format?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
}

type Content = Readonly<Record<string, { readonly schema?: Schema; readonly example?: unknown }>>;

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required?: boolean;
  readonly schema: Schema;
}

export interface Response {
  readonly description: string;
  readonly content?: Content;
}

export interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly method: string;
  readonly path: string;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly required: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, Response>>;
  /** The names of the security schemes, any of which is enough. None: the operation is open. */
  readonly security: readonly string[];
}

interface Document {
  readonly security: readonly Record<string, unknown>[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, RawOperation>>>>;
}

type RawOperation = Omit<Operation, 'method' | 'path' | 'security' | 'parameters'> & {
  readonly parameters?: readonly Parameter[];
  readonly security?: readonly Record<string, unknown>[];
};

/** All operations of a document, with references resolved. */
export function readOperations(document: unknown): Operation[] {
  const { paths, security } = resolveReferences(document, document) as Document;
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      ...operation,
      method: method.toUpperCase(),
      path,
      parameters: operation.parameters ?? [],
      security: (operation.security ?? security).flatMap((each) => Object.keys(each)),
    })),
  );
}

function resolveReferences(node: unknown, root: unknown): unknown {
  if (Array.isArray(node)) return node.map((each) => resolveReferences(each, root));
  if (typeof node !== 'object' || node === null) return node;
  if ('$ref' in node && typeof node.$ref === 'string') {
    const steps = node.$ref.split('/').slice(1);
    const found = steps.reduce<unknown>((at, step) => (at as Record<string, unknown>)[step], root);
    return resolveReferences(found, root);
  }
  return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, resolveReferences(value, root)]));
}

/** Values that the schema allows. */
export function valuesOf(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum) return fc.constantFrom(...schema.enum);
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map(valuesOf));
  if (Array.isArray(schema.type)) {
    return fc.oneof(...schema.type.map((type: string) => valuesOf({ ...schema, type })));
  }
  switch (schema.type) {
    case 'string':
      return textsOf(schema);
    case 'integer':
      return fc.integer({ min: schema.minimum ?? -1000, max: schema.maximum ?? 1000 });
    case 'number':
      return fc.double({ min: schema.minimum ?? -1000, max: schema.maximum ?? 1000, noNaN: true });
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case 'array':
      return fc.array(schema.items ? valuesOf(schema.items) : fc.jsonValue(), { maxLength: 3 });
    case 'object':
      return objectsOf(schema);
    default:
      return fc.jsonValue();
  }
}

function textsOf({ pattern, format, minLength = 0, maxLength = 80 }: Schema): fc.Arbitrary<string> {
  if (format === 'date-time') {
    const noInvalidDate = { min: new Date('2020-01-01'), max: new Date('2024-01-01'), noInvalidDate: true };
    return fc.date(noInvalidDate).map((date) => date.toISOString());
  }
  if (format === 'uri') return fc.webUrl({ validSchemes: ['http', 'https'] });
  if (pattern !== undefined) {
    const whole = new RegExp(pattern);
    // The generator knows no lookaheads.
    const base = new RegExp(pattern.replace(/\(\?[!=][^()]*\)/g, ''));
    return fc
      .stringMatching(base, { size: 'small' })
      .filter((text) => whole.test(text) && text.length >= minLength && text.length <= maxLength);
  }
  return fc.string({ minLength, maxLength: Math.min(maxLength, 20) });
}

function objectsOf({ properties = {}, required = [], additionalProperties }: Schema): fc.Arbitrary<object> {
  if (Object.keys(properties).length === 0 && typeof additionalProperties === 'object') {
    const keys = fc.stringMatching(/^[A-Za-z][A-Za-z0-9]{0,8}$/);
    return fc.dictionary(keys, valuesOf(additionalProperties), { maxKeys: 3 });
  }
  const model = Object.fromEntries(Object.entries(properties).map(([key, schema]) => [key, valuesOf(schema)]));
  return fc.record(model, { requiredKeys: [...required] });
}

/** Bodies that the schema forbids: not JSON, of another type, or with one property of another type or left out. */
export function forbiddenBodies(schema: Schema): fc.Arbitrary<string> {
  const check = Compile(schema as object);
  const others = fc.constantFrom<unknown>(true, 7.5, 'x', ['x'], { x: { y: 1 } });
  const damaged = fc
    .tuple(valuesOf(schema), fc.constantFrom(...Object.keys(schema.properties ?? { '': {} })), fc.option(others))
    .map(([body, key, other]) => {
      const { [key]: _, ...rest } = body as Record<string, unknown>;
      return other === null ? rest : { ...rest, [key]: other };
    });
  return fc.oneof(
    fc.constantFrom('', '{', '{"a":1}}', 'nonsense'),
    fc
      .oneof(others, damaged)
      .filter((body) => !check.Check(body))
      .map((body) => JSON.stringify(body)),
  );
}

/** What is wrong with an answer by the document; undefined if nothing is. */
export function answerProblem(operation: Operation, answer: { status: number; type: string; text: string }) {
  const { status, type, text } = answer;
  const described = operation.responses[status];
  const whole = `${operation.method} ${operation.path}: ${status} ${type} ${text.slice(0, 400)}`;
  if (!described) return `undocumented status: ${whole}`;
  const media = type.split(';', 1)[0] ?? '';
  const content = described.content ?? {};
  // An empty body is valid text, and 401 has no body even where the document describes one.
  if (text === '')
    return !described.content || 'text/plain' in content || status === 401 ? undefined : `empty: ${whole}`;
  const schema = content[media]?.schema;
  if (!schema) return `undocumented body: ${whole}`;
  if (media !== 'application/json') return undefined;
  const check = Compile(closed(schema) as object);
  const body: unknown = JSON.parse(text);
  if (check.Check(body)) return undefined;
  return `violates its schema: ${whole}\n${JSON.stringify(check.Errors(body)[1].slice(0, 5))}`;
}

/** The schema with every key forbidden that it does not name: what an answer has must be documented. */
function closed(schema: Schema): Schema {
  const { properties, items, anyOf, additionalProperties } = schema;
  return {
    ...schema,
    ...(properties && {
      properties: Object.fromEntries(Object.entries(properties).map(([key, each]) => [key, closed(each)])),
      additionalProperties: false,
    }),
    ...(typeof additionalProperties === 'object' && { additionalProperties: closed(additionalProperties) }),
    ...(items && { items: closed(items) }),
    ...(anyOf && { anyOf: anyOf.map(closed) }),
  };
}
