import { S3Error } from '../lib/errors.ts';

/**
 * The supported part of a policy document: Version 2012-10-17, Allow and Deny, Action, Resource, and conditions on
 * `s3:prefix`. A document with anything else is rejected when it is parsed, so that an element that this server does
 * not know never grants a right.
 */
export interface Policy {
  readonly statements: readonly Statement[];
}

interface Statement {
  readonly allow: boolean;
  readonly actions: readonly string[];
  readonly resources: readonly string[];
  readonly prefixes: readonly PrefixCondition[];
}

interface PrefixCondition {
  readonly operator: 'StringLike' | 'StringEquals';
  readonly values: readonly string[];
}

/** The request that a policy is evaluated for. */
interface PolicyRequest {
  readonly action: string;
  readonly bucket: string;
  readonly key: string;
  /** The prefix of a listing; empty if the listing has none. */
  readonly prefix: string;
}

const ARN = 'arn:aws:s3:::';

/** An explicit Deny wins; without an Allow the request is denied. */
export function permits({ statements }: Policy, question: PolicyRequest): boolean {
  let allowed = false;
  for (const statement of statements) {
    if (!applies(statement, question)) continue;
    if (!statement.allow) return false;
    allowed = true;
  }
  return allowed;
}

function applies({ actions, resources, prefixes }: Statement, question: PolicyRequest): boolean {
  if (!actions.some((action) => matchesWildcard(action, question.action))) return false;
  // In MinIO `bucket/*` also matches the bucket itself, and OSCAR's policies rely on it (docs/go-manager.md#in-minio).
  const names = question.key === '' ? [question.bucket, `${question.bucket}/`] : [`${question.bucket}/${question.key}`];
  if (!resources.some((resource) => names.some((name) => matchesWildcard(resource, name)))) return false;
  return prefixes.every(({ operator, values }) =>
    values.some((value) =>
      operator === 'StringLike' ? matchesWildcard(value, question.prefix) : value === question.prefix,
    ),
  );
}

/** The longest policy in characters: enough for a few hundred resources. */
const LONGEST = 65_536;

export function readPolicy(text: string): Policy {
  if (text.length > LONGEST) throw malformedPolicy(`is longer than ${LONGEST} characters`);
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (cause) {
    throw malformedPolicy('is not JSON', cause);
  }
  const { Version, Statement, Id, ...others } = readObject(document, 'is not an object');
  if (Version !== '2012-10-17') throw malformedPolicy('must have Version 2012-10-17');
  if (Id !== undefined && typeof Id !== 'string') throw malformedPolicy('has an Id that is not a text');
  rejectUnknownKeys(others);
  const statements = (Array.isArray(Statement) ? Statement : [Statement]).map(readStatement);
  if (statements.length === 0) throw malformedPolicy('has no Statement');
  return { statements };
}

function readStatement(value: unknown): Statement {
  const { Sid, Effect, Action, Resource, Condition, ...others } = readObject(
    value,
    'has a Statement that is not an object',
  );
  rejectUnknownKeys(others);
  if (Sid !== undefined && typeof Sid !== 'string') throw malformedPolicy('has a Sid that is not a text');
  if (Effect !== 'Allow' && Effect !== 'Deny')
    throw malformedPolicy('has a Statement whose Effect is neither Allow nor Deny');
  const actions = readTexts(Action, 'Action');
  if (!actions.every((action) => /^(\*|s3:[A-Za-z*?]+)$/.test(action)))
    throw malformedPolicy('has an Action that is not an s3 action');
  const resources = readTexts(Resource, 'Resource').map((resource) => {
    if (resource === '*') return resource;
    if (!resource.startsWith(ARN) || resource.length === ARN.length)
      throw malformedPolicy(`has a Resource that does not begin with ${ARN}`);
    return resource.slice(ARN.length);
  });
  return { allow: Effect === 'Allow', actions, resources, prefixes: readConditions(Condition) };
}

function readConditions(value: unknown): PrefixCondition[] {
  if (value === undefined) return [];
  return Object.entries(readObject(value, 'has a Condition that is not an object')).flatMap(([operator, tests]) => {
    if (operator !== 'StringLike' && operator !== 'StringEquals')
      throw malformedPolicy(
        `has the condition operator ${operator}, which is not supported: use StringLike or StringEquals`,
      );
    return Object.entries(readObject(tests, 'has a condition that is not an object')).map(([name, values]) => {
      if (name !== 's3:prefix')
        throw malformedPolicy(`has a condition on ${name}, which is not supported: use s3:prefix`);
      return { operator, values: readTexts(values, name) } as const;
    });
  });
}

function readTexts(value: unknown, name: string): string[] {
  const list: unknown[] = Array.isArray(value) ? value : [value];
  const texts = list.filter((each) => typeof each === 'string');
  if (texts.length === 0 || texts.length < list.length)
    throw malformedPolicy(`needs ${name}: a text or a list of texts`);
  return texts;
}

function readObject(value: unknown, why: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw malformedPolicy(why);
  return { ...value };
}

function rejectUnknownKeys(others: Record<string, unknown>): void {
  const [name] = Object.keys(others);
  if (name !== undefined) throw malformedPolicy(`has ${name}, which is not supported`);
}

function malformedPolicy(why: string, cause?: unknown): S3Error {
  return new S3Error('MalformedPolicy', `The policy ${why}.`, { cause });
}

const ANY = Symbol('any characters');
const ONE = Symbol('one character');

type Token = string | typeof ANY | typeof ONE;

/** `${*}`, `${?}` and `${$}` stand for the characters themselves (IAM's policy variables). */
const PARTS = /\$\{([*?$])\}|[^]/g;

function tokenize(pattern: string): Token[] {
  return Array.from(pattern.matchAll(PARTS), ([part, itself]) => {
    if (itself !== undefined) return itself;
    return part === '*' ? ANY : part === '?' ? ONE : part;
  });
}

/**
 * IAM's patterns: `*` matches any characters, `?` one. It never backtracks further than the last `*`, so no pattern is
 * slow.
 */
export function matchesWildcard(pattern: string, text: string): boolean {
  const tokens = tokenize(pattern);
  let p = 0;
  let t = 0;
  let star = -1;
  let resume = 0;
  while (t < text.length) {
    const token = tokens[p];
    if (token === ANY) {
      star = p++;
      resume = t;
    } else if (token !== undefined && (token === ONE || token === text[t])) {
      p++;
      t++;
    } else if (star >= 0) {
      p = star + 1;
      t = ++resume;
    } else return false;
  }
  while (tokens[p] === ANY) p++;
  return p === tokens.length;
}
