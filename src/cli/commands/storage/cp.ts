import { statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ClientError } from '../../client/errors.ts';
import { act, clusterCommand, type Register, required } from '../command.ts';
import { findStore, formatLocation, isObjectLocation, parseObjectLocation, resolveTarget } from './store.ts';
import { downloadFile, uploadFile } from './transfer.ts';

export const cp: Register = (program, env) => {
  const command = clusterCommand(
    program,
    'cp <from> <to>',
    'copy a file to or from a store: s3://BUCKET/KEY or PROVIDER:BUCKET/KEY, - for standard output',
  );
  act(command, env, async (session, [from, to]) => {
    const [source, target] = [required(from), required(to)];
    if (isObjectLocation(source) === isObjectLocation(target)) {
      throw new ClientError('usage', 'exactly one of the two must be in a store: write s3://BUCKET/KEY');
    }
    if (isObjectLocation(target)) {
      const place = resolveTarget(parseObjectLocation(target), basename(source), false);
      await uploadFile(source, place, await findStore(place, session), session.terminal);
      session.terminal.note(`${source} → ${formatLocation(place)}`);
      return;
    }
    const place = parseObjectLocation(source);
    if (place.key === '' || place.key.endsWith('/'))
      throw new ClientError('usage', `"${source}" is a folder: name one object`);
    const file = target === '-' ? undefined : fileFor(target, place.key);
    await downloadFile(place, file, await findStore(place, session), session.terminal);
    if (file !== undefined) session.terminal.note(`${formatLocation(place)} → ${file}`);
  });
};

/** In a directory, the file gets the name of the object. */
function fileFor(target: string, key: string): string {
  return statSync(target, { throwIfNoEntry: false })?.isDirectory() ? join(target, basename(key)) : target;
}
