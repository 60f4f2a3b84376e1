import { type Column, show } from '../../client/table.ts';
import { act, type Register, required, showCommand } from '../command.ts';
import { formatSize } from '../units.ts';
import { findStore, formatLocation, parseObjectLocation, type RemoteListedObject } from './store.ts';

const COLUMNS: readonly Column<RemoteListedObject>[] = [
  { title: 'OBJECT', of: ({ object_name }) => object_name },
  { title: 'SIZE', of: ({ size_bytes }) => formatSize(size_bytes) },
  { title: 'CHANGED', of: ({ last_modified }) => last_modified.replace(/(\.\d+)? \+0000 UTC$/, 'Z') },
];

export const ls: Register = (program, env) => {
  const command = showCommand(program, 'ls <location>', 'list the objects of [PROVIDER:]BUCKET[/FOLDER]');
  act(command, env, async (session, [text]) => {
    const place = parseObjectLocation(required(text));
    const store = await findStore(place, session);
    show(await store.objects(place), COLUMNS, session, `${formatLocation(place)} is empty`);
  });
};
