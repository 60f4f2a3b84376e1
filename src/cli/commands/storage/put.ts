import { basename } from 'node:path';
import { act, clusterCommand, type Register, required } from '../command.ts';
import { findStore, isBelow, parseObjectLocation, printPlace } from './store.ts';
import { fileAt, uploadFile } from './transfer.ts';

export const put: Register = (program, env) => {
  const command = clusterCommand(program, 'put <file...>', 'upload files: put FILE… BUCKET[/FOLDER]').usage(
    '[options] <file...> <bucket[/folder]>',
  );
  act(command, env, async (session, args) => {
    const folder = parseObjectLocation(required(args.at(-1)));
    const files = args.slice(0, -1);
    if (files.length === 0) command.error("error: missing required argument 'bucket'", { exitCode: 2 });
    for (const file of files) fileAt(file);
    const store = await findStore(folder, session);
    for (const file of files) {
      const to = isBelow(folder, basename(file), true);
      await uploadFile(file, to, store, session.terminal);
      session.terminal.note(`${file} → ${printPlace(to)}`);
    }
  });
};
