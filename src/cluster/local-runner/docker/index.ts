export { createDockerLauncher, type DockerLauncherOptions } from './docker-launcher.ts';
export { type DockerSearch, findDocker } from './engine/find-docker.ts';
