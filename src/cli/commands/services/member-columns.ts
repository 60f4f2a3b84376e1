import type { Column } from '../../client/table.ts';
import { span } from '../units.ts';
import { type Member, memberName } from './seen.ts';

export const MEMBER_COLUMNS: readonly Column<Member>[] = [
  { title: 'MEMBER', of: memberName },
  { title: 'STATE', of: ({ state = '' }) => state },
  { title: 'PRIORITY', of: ({ priority }) => String(priority) },
  { title: 'REVISION', of: ({ revision }) => String(revision ?? ''), wide: true },
  {
    title: 'LAST SEEN',
    of: ({ last_seen }) => (last_seen ? `${span(Date.now() - Date.parse(last_seen))} ago` : ''),
    wide: true,
  },
  { title: 'REASON', of: ({ reason = '' }) => reason },
];
