/** The state of a job, a member or a node: a word with a colour, never a colour alone. */
export function StateBadge({ state, title }: { state: string; title?: string | undefined }) {
  return (
    <span className={`badge badge-${toneOf(state)}`} title={title}>
      {state}
    </span>
  );
}

export type Tone = 'good' | 'busy' | 'wait' | 'bad' | 'quiet';

const TONES: Readonly<Record<string, Tone>> = {
  succeeded: 'good',
  ready: 'good',
  Ready: 'good',
  running: 'busy',
  staging: 'busy',
  committing: 'busy',
  delegated: 'busy',
  offering: 'busy',
  accepted: 'wait',
  queued: 'wait',
  suspended: 'wait',
  pending: 'wait',
  removing: 'wait',
  failed: 'bad',
  unreachable: 'bad',
  conflict: 'bad',
  NotReady: 'bad',
};

export const toneOf = (state: string): Tone => TONES[state] ?? 'quiet';
