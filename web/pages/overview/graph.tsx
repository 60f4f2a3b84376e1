import { toneOf } from '../../components/state-badge.tsx';
import { formatBytes, formatCores } from '../../lib/format.ts';
import { navigate, toPath } from '../../lib/router.ts';
import { TEXTS } from '../../texts.ts';
import type { ClusterNode, FederationGraph } from './clusters.ts';
import { CARD, type Point, placeClusters } from './places.ts';

/**
 * The federation as a picture: the own cluster in the middle, the others around it. The table below it says the same in words.
 */
export function Graph({ graph: { clusters, links } }: { graph: FederationGraph }) {
  const places = placeClusters(clusters.map(({ id }) => id));
  const [width, height] = extent([...places.values()]);
  return (
    <svg
      className="graph"
      role="img"
      aria-label={TEXTS.overview.graph}
      viewBox={`${-width / 2} ${-height / 2} ${width} ${height}`}
    >
      {links.map(({ from, to, state }) => {
        const [a, b] = [places.get(from), places.get(to)];
        if (!a || !b) return null;
        return (
          <line key={`${from} ${to}`} x1={a.x} y1={a.y} x2={b.x} y2={b.y} className={`link link-${toneOf(state)}`} />
        );
      })}
      {clusters.map((cluster) => {
        const at = places.get(cluster.id);
        return at && <Card key={cluster.id} cluster={cluster} at={at} />;
      })}
    </svg>
  );
}

function Card({ cluster, at }: { cluster: ClusterNode; at: Point }) {
  const { id, isSelf, capacity, running, queued, states } = cluster;
  const bad = states.find(({ state }) => toneOf(state) === 'bad');
  const open = () => isSelf && navigate(toPath(['cluster']));
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the table below has the same links
    <g transform={`translate(${at.x - CARD.width / 2} ${at.y - CARD.height / 2})`} className="cluster" onClick={open}>
      <title>{bad ? `${id}: ${bad.state}, ${bad.reason ?? ''}` : id}</title>
      <rect width={CARD.width} height={CARD.height} rx={10} className={`card card-${bad ? 'bad' : 'good'}`} />
      <text x={12} y={24} className="card-name">
        {id.length > 22 ? `${id.slice(0, 21)}…` : id}
      </text>
      {capacity ? (
        <>
          <Bar
            y={38}
            share={share(capacity.cpu)}
            text={`${TEXTS.overview.cpu} ${formatCores(capacity.cpu.used)} / ${formatCores(capacity.cpu.total)}`}
          />
          <Bar
            y={58}
            share={share(capacity.memory)}
            text={`${formatBytes(capacity.memory.used)} / ${formatBytes(capacity.memory.total)}`}
          />
        </>
      ) : (
        <text x={12} y={52} className="card-text">
          {bad ? bad.state : cluster.services.join(', ').slice(0, 28)}
        </text>
      )}
      <text x={12} y={86} className="card-text">
        {`${running} ${TEXTS.overview.running.toLowerCase()}`}
        {isSelf ? `, ${queued} ${TEXTS.overview.queued.toLowerCase()}` : ''}
      </text>
      {Array.from({ length: Math.min(running, 5) }, (_, index) => (
        <circle key={`job ${String(index)}`} cx={CARD.width - 14 - index * 9} cy={82} r={3.5} className="job-dot" />
      ))}
    </g>
  );
}

function Bar({ y, share: used, text }: { y: number; share: number; text: string }) {
  const width = CARD.width - 24;
  return (
    <>
      <rect x={12} y={y} width={width} height={12} rx={3} className="bar" />
      <rect x={12} y={y} width={width * used} height={12} rx={3} className={used > 0.9 ? 'bar-full' : 'bar-used'} />
      <text x={16} y={y + 10} className="bar-text">
        {text}
      </text>
    </>
  );
}

const share = ({ used, total }: { used: number; total: number }) => (total > 0 ? Math.min(1, used / total) : 0);

function extent(points: readonly Point[]): [number, number] {
  const most = (read: (point: Point) => number) => Math.max(...points.map((point) => Math.abs(read(point))), 0);
  return [2 * most(({ x }) => x) + CARD.width + 40, 2 * most(({ y }) => y) + CARD.height + 40];
}
