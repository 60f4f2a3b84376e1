import { dockerPrograms } from './programs.ts';

/** Runs before the tests, so that an installation does not look like a test that hangs. */
const begin = performance.now();
try {
  await dockerPrograms((line) => process.stdout.write(`${line}\n`));
  process.stdout.write(`daemon and images for the Docker tests ready in ${Math.round(performance.now() - begin)} ms\n`);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
