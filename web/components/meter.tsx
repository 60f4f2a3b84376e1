/** A bar that shows how much of something is in use. */
export function Meter({ label, used, total, text }: { label: string; used: number; total: number; text: string }) {
  const share = total > 0 ? Math.min(1, used / total) : 0;
  return (
    <div
      className="meter"
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={total}
      aria-valuenow={used}
      aria-valuetext={text}
    >
      <span className="meter-label">{label}</span>
      <span className="meter-track">
        <span className={`meter-fill ${share > 0.9 ? 'meter-full' : ''}`} style={{ width: `${share * 100}%` }} />
      </span>
      <span className="meter-text">{text}</span>
    </div>
  );
}
