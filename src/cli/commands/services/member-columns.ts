import type { Column } from '../../client/table.ts';
import { type SeenMember, seenMemberName } from '../seen.ts';
import { span } from '../units.ts';

export const MEMBER_COLUMNS: readonly Column<SeenMember>[] = [
  { title: 'MEMBER', of: seenMemberName },
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
