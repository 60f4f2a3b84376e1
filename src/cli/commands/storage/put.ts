import { basename } from 'node:path';
import { act, clusterCommand, type Register, required } from '../command.ts';
import { placeOf, within } from './place.ts';
import { fileAt, upload } from './transfer.ts';

export const put: Register = (program, env) => {
  const command = clusterCommand(program, 'put <file...>', 'upload files: put FILE… BUCKET[/FOLDER]').usage(
    '[options] <file...> <bucket[/folder]>',
  );
  act(command, env, async (session, args) => {
    const folder = placeOf(required(args.at(-1)));
    const files = args.slice(0, -1);
    if (files.length === 0) command.error("error: missing required argument 'bucket'", { exitCode: 2 });
    for (const file of files) fileAt(file);
    const cluster = await session.cluster();
    for (const file of files) {
      const to = within(folder, basename(file), true);
      await upload(file, to, cluster, session.terminal);
      session.terminal.note(`${file} → ${to.bucket}/${to.key}`);
    }
  });
};
