export { createDockerLauncher, type DockerLauncher, type DockerLauncherOptions } from './docker-launcher.ts';
