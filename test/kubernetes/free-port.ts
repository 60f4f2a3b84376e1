/** Ports that nobody uses now, and that nobody is given who only dials: several suites run at once on this machine. */
export { lastingPorts as freePorts } from '../support/lasting-port.ts';
