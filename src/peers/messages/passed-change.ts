import { Type } from 'typebox';
import { type Field, fields, mapRead, oneOfField, optional, type Read, textField } from '../../lib/fields.ts';
import { decode, MAX_MEMBERS, type Problem, type Replica, ServiceSchema } from '../../model/service/index.ts';
import * as field from './fields.ts';

/** What a worker passes on to its coordinator, and hears of it (docs/peer-protocol.md). */

/** A change of members, as its client asked for it. */
export interface PassedChange {
  readonly method: 'POST' | 'PUT' | 'DELETE';
  /** Absent when there was none. */
  readonly body?: unknown;
}

/** What came of it. Why members are pending is the coordinator's to tell: its words are not passed back (F40). */
export interface PassedAnswer {
  readonly topology: string;
  readonly members: readonly Replica[];
  /** `<cluster id>/<service>` of members that do not have it yet. */
  readonly pending: readonly string[];
  /** Of what was named to be changed or removed, that which is no member. */
  readonly absent?: readonly string[];
}

const readMethod = fields<{ readonly method: PassedChange['method'] }>({ method: oneOfField('POST', 'PUT', 'DELETE') });

export function readPassedChange(raw: unknown): Read<PassedChange> {
  const { body } = (raw ?? {}) as { readonly body?: unknown };
  return mapRead(readMethod(raw), ({ method }) => ({ method, ...(body !== undefined && { body }) }));
}

const { items } = ServiceSchema.properties.federation.properties.members;
const MembersSchema = Type.Object({ members: Type.Array(items, { maxItems: MAX_MEMBERS }) });

const members: Field<readonly Replica[]> = {
  is: 'a list of members',
  read: (raw) => {
    const problems: Problem[] = [];
    const read = decode(MembersSchema, { members: raw }, problems) as { readonly members: Replica[] };
    return Array.isArray(raw) && problems.length === 0 ? read.members : undefined;
  },
};

const pending: Field<readonly string[]> = {
  is: 'a list of <cluster id>/<service>',
  read: (raw) => (Array.isArray(raw) && raw.every((each) => field.member.read(each) !== undefined) ? raw : undefined),
};

const names: Field<readonly string[]> = {
  is: 'a list of names',
  read: (raw) => (Array.isArray(raw) && raw.every((each) => typeof each === 'string') ? raw : undefined),
};

export const readPassedAnswer = fields<PassedAnswer>({
  topology: textField('a topology', /^[a-z]{1,16}$/i),
  members,
  pending,
  absent: optional(names),
});
