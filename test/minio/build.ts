import { minioProgram } from './programs.ts';

/** Runs before the tests, so that the first build does not look like a test that hangs. */
const begin = performance.now();
try {
  await minioProgram((line) => process.stdout.write(`${line}\n`));
  process.stdout.write(`MinIO for its tests ready in ${Math.round(performance.now() - begin)} ms\n`);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
