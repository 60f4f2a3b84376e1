import { minioProgram } from '../minio/programs.ts';
import { envoyProgram } from './knative/envoy.ts';
import { nodeImages } from './node/images.ts';
import { nodePackages } from './node/packages.ts';
import { corednsProgram, helmProgram, knativeKit, kueueKit, metricsServerProgram, programs } from './programs.ts';

/** Runs before the tests, so that the first build is visible as a build and not as a test that hangs. */
const begin = performance.now();
const tell = (line: string) => process.stdout.write(`${line}\n`);
try {
  await programs(tell);
  await nodePackages(tell);
  await nodeImages();
  await corednsProgram(tell);
  await metricsServerProgram(tell);
  await helmProgram(tell);
  await knativeKit(tell);
  await envoyProgram(tell);
  await kueueKit(tell);
  await minioProgram(tell);
  process.stdout.write(`programs for the Kubernetes tests ready in ${Math.round(performance.now() - begin)} ms\n`);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
