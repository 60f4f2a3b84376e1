import { run } from './cli/command-line.ts';

process.exitCode = await run(process.argv.slice(2), process.env);
