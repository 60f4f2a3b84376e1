import { statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ClientError } from '../../client/errors.ts';
import { act, clusterCommand, type Register, required } from '../command.ts';
import { isPlace, placeOf, within } from './place.ts';
import { download, upload } from './transfer.ts';

export const cp: Register = (program, env) => {
  const command = clusterCommand(
    program,
    'cp <from> <to>',
    'copy one file; the side of the store is written s3://BUCKET/KEY, - is standard output',
  );
  act(command, env, async (session, [from, to]) => {
    const [source, target] = [required(from), required(to)];
    if (isPlace(source) === isPlace(target)) {
      throw new ClientError('usage', 'one of the two must be in a store: write it s3://BUCKET/KEY');
    }
    const cluster = await session.cluster();
    if (isPlace(target)) {
      const place = within(placeOf(target), basename(source), false);
      await upload(source, place, cluster, session.terminal);
      session.terminal.note(`${source} → ${place.bucket}/${place.key}`);
      return;
    }
    const place = placeOf(source);
    if (place.key === '' || place.key.endsWith('/')) throw new ClientError('usage', `"${source}" is not one object`);
    const file = target === '-' ? undefined : fileFor(target, place.key);
    await download(place, file, cluster, session.terminal);
    if (file !== undefined) session.terminal.note(`${place.bucket}/${place.key} → ${file}`);
  });
};

/** A directory gets a file of the same name. */
function fileFor(target: string, key: string): string {
  return statSync(target, { throwIfNoEntry: false })?.isDirectory() ? join(target, basename(key)) : target;
}
