export { createDockerLauncher, type DockerLauncherOptions } from './docker-launcher.ts';
export { findDocker } from './engine/find-docker.ts';
