import { readdirSync, readFileSync } from 'node:fs';

/** What the kernel counts the time of processes in, whatever its own clock is (proc(5)). */
const TICKS_PER_SECOND = 100;

/** Seconds of CPU that a process has used. */
export function cpuSeconds(pid: number): number {
  const { user, system } = statOf(pid);
  return (user + system) / TICKS_PER_SECOND;
}

/** Seconds of CPU, by who has used them. */
export interface CpuTimes {
  readonly own: number;
  /** Children that are still there. */
  readonly children: number;
  /** Children that have ended, with all that they had started and waited for. */
  readonly ended: number;
}

export function cpuTimes(pid: number): CpuTimes {
  const children = childrenOf(pid);
  const sum = (seconds: number[]) => seconds.reduce((total, each) => total + each, 0);
  // Scripts are started by a child.
  return {
    own: cpuSeconds(pid),
    children: sum(children.map(cpuSeconds)),
    ended: sum([pid, ...children].map(endedSeconds)),
  };
}

function endedSeconds(pid: number): number {
  const { endedUser, endedSystem } = statOf(pid);
  return (endedUser + endedSystem) / TICKS_PER_SECOND;
}

function childrenOf(pid: number): number[] {
  const tasks = `/proc/${pid}/task`;
  const lists = readdirSync(tasks).map((task) => readFileSync(`${tasks}/${task}/children`, 'utf8'));
  return lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number));
}

function statOf(pid: number) {
  // Behind the name, which may have spaces in it, follow the state and ten others before the times.
  const [, fields = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ');
  const [user, system, endedUser, endedSystem] = fields.split(' ').slice(11, 15);
  return {
    user: Number(user),
    system: Number(system),
    endedUser: Number(endedUser),
    endedSystem: Number(endedSystem),
  };
}
