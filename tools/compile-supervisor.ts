/** Compiles the program that isolates scripts; the first manager that needs it would do it otherwise. */
import { compileSupervisor } from '../src/adapters/local-runner/process/supervisor.ts';

try {
  await compileSupervisor();
} catch (error) {
  // Not an error of the installation: scripts may run in containers, or without isolation.
  process.stderr.write(`scripts that run as plain processes cannot be isolated here: ${(error as Error).message}\n`);
}
