import { type Column, show } from '../../client/table.ts';
import { act, type Register, required, showCommand } from '../command.ts';
import { size } from '../units.ts';
import { objectsOf, type StoredObject } from './objects.ts';
import { placeOf } from './place.ts';

const COLUMNS: readonly Column<StoredObject>[] = [
  { title: 'OBJECT', of: ({ object_name }) => object_name },
  { title: 'SIZE', of: ({ size_bytes }) => size(size_bytes) },
  { title: 'CHANGED', of: ({ last_modified }) => last_modified.replace(/(\.\d+)? \+0000 UTC$/, 'Z') },
];

export const ls: Register = (program, env) => {
  const command = showCommand(program, 'ls <place>', 'what is in a bucket: ls BUCKET[/FOLDER]');
  act(command, env, async (session, [text]) => {
    const { bucket, key } = placeOf(required(text));
    const all = await objectsOf(await session.cluster(), bucket);
    const found = all.filter(({ object_name }) => object_name.startsWith(key));
    show(found, COLUMNS, session, `nothing is in ${bucket}${key ? `/${key}` : ''}`);
  });
};
