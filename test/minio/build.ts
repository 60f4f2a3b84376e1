import { minioProgram } from './programs.ts';

/** Before the tests, so that the first build is seen as a build and not as a test that hangs. */
const begin = performance.now();
try {
  await minioProgram((line) => process.stdout.write(`${line}\n`));
  process.stdout.write(`MinIO for its tests ready in ${Math.round(performance.now() - begin)} ms\n`);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
