import { basename } from 'node:path';
import { act, clusterCommand, type Register, required } from '../command.ts';
import { findStore, formatLocation, parseObjectLocation, resolveTarget } from './store.ts';
import { statFile, uploadFile } from './transfer.ts';

export const put: Register = (program, env) => {
  const command = clusterCommand(program, 'put <file...>', 'upload files to BUCKET[/FOLDER]').usage(
    '[options] <file...> <bucket[/folder]>',
  );
  act(command, env, async (session, args) => {
    const folder = parseObjectLocation(required(args.at(-1)));
    const files = args.slice(0, -1);
    if (files.length === 0) command.error("error: missing required argument 'bucket'", { exitCode: 2 });
    for (const file of files) statFile(file);
    const store = await findStore(folder, session);
    for (const file of files) {
      const to = resolveTarget(folder, basename(file), true);
      await uploadFile(file, to, store, session.terminal);
      session.terminal.note(`${file} → ${formatLocation(to)}`);
    }
  });
};
