import { FederationError, type FederationErrorCode } from '../../errors.ts';
import { PeerError, type PeerErrorCode } from '../../peer/peer.ts';

/** What is said about one member. */
export interface Verdict {
  /** `<cluster id>/<service>`. */
  readonly member: string;
  /** Absent when nothing is wrong with it. */
  readonly problem?: PeerError;
}

/** The worst comes first: one answer has one code, and a user mends credentials before they wait for a network. */
const CODES = [
  'member-refused',
  'member-taken',
  'member-unreachable',
  'member-failed',
] as const satisfies FederationErrorCode[];

const CODE_OF: Record<PeerErrorCode, (typeof CODES)[number]> = {
  refused: 'member-refused',
  taken: 'member-taken',
  unreachable: 'member-unreachable',
  gone: 'member-failed',
  stale: 'member-failed',
  failed: 'member-failed',
};

/** One sentence, then every member with its reason. */
export function refusal(sentence: string, verdicts: readonly Verdict[]): FederationError {
  const codes = new Set(verdicts.flatMap(({ problem }) => (problem ? [CODE_OF[problem.code]] : [])));
  const code = CODES.find((each) => codes.has(each)) ?? 'member-failed';
  const cause = verdicts.find(({ problem }) => problem && CODE_OF[problem.code] === code)?.problem;
  return new FederationError(code, [sentence, ...verdicts.map(lineOf)].join('\n'), { cause });
}

function lineOf({ member, problem }: Verdict): string {
  if (!problem) return `  ${member}: nothing is wrong there`;
  return `  ${member}: ${CODE_OF[problem.code].slice('member-'.length)}: ${problem.message}`;
}

/** A fault of ours in between is no secret of the peer's, but no sentence for users either. */
export function problemOf(error: unknown): PeerError {
  if (error instanceof PeerError) return error;
  return new PeerError('failed', 'something went wrong on the way there: the log of this manager says what', {
    cause: error,
  });
}
