import { useEffect, useState } from 'react';

/**
 * The clock of the manager: ages are computed from its times, and the clock of this machine may differ by minutes.
 */
let offsetMs = 0;

/** Called with the Date header of answers. Its resolution is a second, so only larger differences count. */
export function noteServerTime(date: string | null): void {
  const difference = date === null ? Number.NaN : Date.parse(date) - Date.now();
  if (Math.abs(difference - offsetMs) > 2_000) offsetMs = difference;
}

export const serverNow = () => Date.now() + offsetMs;

/** The time of the manager, updated every second while the page is visible. */
export function useNow(intervalMs = 1_000): number {
  const [now, setNow] = useState(serverNow);
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && setNow(serverNow()), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
  return now;
}
