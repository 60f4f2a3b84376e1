import { statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ClientError } from '../../client/errors.ts';
import { act, clusterCommand, type Register, required } from '../command.ts';
import { findStore, isBelow, isObjectLocation, parseObjectLocation, printPlace } from './store.ts';
import { downloadFile, uploadFile } from './transfer.ts';

export const cp: Register = (program, env) => {
  const command = clusterCommand(
    program,
    'cp <from> <to>',
    'copy one file; the side of the store is written s3://BUCKET/KEY or PROVIDER:BUCKET/KEY, - is standard output',
  );
  act(command, env, async (session, [from, to]) => {
    const [source, target] = [required(from), required(to)];
    if (isObjectLocation(source) === isObjectLocation(target)) {
      throw new ClientError('usage', 'one of the two must be in a store: write it s3://BUCKET/KEY');
    }
    if (isObjectLocation(target)) {
      const place = isBelow(parseObjectLocation(target), basename(source), false);
      await uploadFile(source, place, await findStore(place, session), session.terminal);
      session.terminal.note(`${source} → ${printPlace(place)}`);
      return;
    }
    const place = parseObjectLocation(source);
    if (place.key === '' || place.key.endsWith('/')) throw new ClientError('usage', `"${source}" is not one object`);
    const file = target === '-' ? undefined : fileFor(target, place.key);
    await downloadFile(place, file, await findStore(place, session), session.terminal);
    if (file !== undefined) session.terminal.note(`${printPlace(place)} → ${file}`);
  });
};

/** A directory gets a file of the same name. */
function fileFor(target: string, key: string): string {
  return statSync(target, { throwIfNoEntry: false })?.isDirectory() ? join(target, basename(key)) : target;
}
