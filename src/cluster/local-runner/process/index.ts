export { createProcessLauncher } from './process-launcher.ts';
