export { createProcessLauncher, type ProcessLauncherOptions } from './process-launcher.ts';
