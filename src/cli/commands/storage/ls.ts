import { type Column, show } from '../../client/table.ts';
import { act, type Register, required, showCommand } from '../command.ts';
import { formatSize } from '../units.ts';
import type { RemoteListedObject } from './objects.ts';
import { findStore, parseObjectLocation, printPlace } from './store.ts';

const COLUMNS: readonly Column<RemoteListedObject>[] = [
  { title: 'OBJECT', of: ({ object_name }) => object_name },
  { title: 'SIZE', of: ({ size_bytes }) => formatSize(size_bytes) },
  { title: 'CHANGED', of: ({ last_modified }) => last_modified.replace(/(\.\d+)? \+0000 UTC$/, 'Z') },
];

export const ls: Register = (program, env) => {
  const command = showCommand(program, 'ls <place>', 'what is in a bucket: ls [PROVIDER:]BUCKET[/FOLDER]');
  act(command, env, async (session, [text]) => {
    const place = parseObjectLocation(required(text));
    const store = await findStore(place, session);
    show(await store.objects(place), COLUMNS, session, `nothing is in ${printPlace(place)}`);
  });
};
