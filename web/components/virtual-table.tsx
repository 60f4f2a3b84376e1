import { type ReactNode, useEffect, useRef, useState } from 'react';

export interface TableColumn<T> {
  readonly title: string;
  readonly cell: (row: T) => ReactNode;
  readonly className?: string;
}

const ROW_HEIGHT = 40;
/** Rows above and below the visible ones: more of them hide fast scrolling, fewer are drawn faster. */
const MARGIN = 10;

/**
 * A table of any length that draws only the rows in sight. All rows have the same height. Empty rows above and below keep the
 * scroll bar right.
 */
export function VirtualTable<T>({
  rows,
  columns,
  keyOf,
  label,
  onEnd,
}: {
  rows: readonly T[];
  columns: readonly TableColumn<T>[];
  keyOf: (row: T) => string;
  label: string;
  /** Called when the last row comes into sight. */
  onEnd?: (() => void) | undefined;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    measure();
    element.addEventListener('scroll', measure, { passive: true });
    const resized = new ResizeObserver(measure);
    resized.observe(element);
    return () => {
      element.removeEventListener('scroll', measure);
      resized.disconnect();
    };
  }, []);
  const first = Math.max(0, Math.floor(view.top / ROW_HEIGHT) - MARGIN);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW_HEIGHT) + MARGIN);
  const atEnd = last >= rows.length;
  useEffect(() => {
    if (atEnd && rows.length > 0) onEnd?.();
  }, [atEnd, rows.length, onEnd]);

  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard
    <div className="table-box" ref={box} tabIndex={0} role="region" aria-label={label}>
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {columns.map(({ title, className }) => (
              <th key={title} scope="col" className={className}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <Spacer rows={first} columns={columns.length} />}
          {rows.slice(first, last).map((row, index) => (
            <tr key={keyOf(row)} aria-rowindex={first + index + 2}>
              {columns.map(({ title, cell, className }) => (
                <td key={title} className={className}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
          {last < rows.length && <Spacer rows={rows.length - last} columns={columns.length} />}
        </tbody>
      </table>
    </div>
  );
}

function Spacer({ rows, columns }: { rows: number; columns: number }) {
  return (
    <tr aria-hidden="true" className="spacer" style={{ height: rows * ROW_HEIGHT }}>
      <td colSpan={columns} />
    </tr>
  );
}
