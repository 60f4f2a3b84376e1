/** Whether a store that stands elsewhere was started anew: that can be at any time, and nobody tells us. */
export interface StartWatch {
  /** Was it, since it was last looked and it answered? */
  look(): Promise<boolean>;
}

/** It counts in whole seconds, and our question takes a while. */
const INEXACT_MS = 2_000;

/** `upFor` is how long it has been up now; the first look is at the last `before`. All of it milliseconds. */
export function watchStarts(
  upFor: (() => Promise<number>) | undefined,
  before: number,
  now = () => performance.now(),
): StartWatch {
  let looked = now() - before;
  return {
    async look() {
      if (!upFor) return false;
      const asked = now();
      const up = await upFor();
      const since = asked - looked;
      looked = asked;
      return up < since + INEXACT_MS;
    },
  };
}
