export { createDockerLauncher, type DockerSearch, findDocker } from './docker/index.ts';
export type { Launcher } from './launcher.ts';
export { createLocalRunner } from './local-runner.ts';
export { createProcessLauncher } from './process/index.ts';
