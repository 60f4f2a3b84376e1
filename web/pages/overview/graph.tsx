import { useState } from 'react';
import { toneOf } from '../../components/state-badge.tsx';
import { formatBytes, formatCores } from '../../lib/format.ts';
import { TEXTS } from '../../texts.ts';
import type { ClusterLink, ClusterNode, FederationGraph, Resource } from './clusters.ts';
import { CARD, type CardSize, MANY, type Point, placeClusters, SMALL_CARD } from './places.ts';

const T = TEXTS.overview;
const ZOOM = { least: 1, most: 6, step: 1.5 };

/**
 * The federation as a picture: the own cluster in the middle, the others around it. The table below it says the same in words.
 * Enlarged, the picture scrolls inside its box, with the keyboard too.
 */
export function Graph({ graph: { clusters, links } }: { graph: FederationGraph }) {
  const [zoom, setZoom] = useState(1);
  const size = clusters.length > MANY ? SMALL_CARD : CARD;
  const places = placeClusters(
    clusters.map(({ id }) => id),
    size,
  );
  const [width, height] = extent([...places.values()], size);
  const active = new Set(clusters.filter(({ travelling }) => travelling > 0).map(({ id }) => id));
  const known = new Map(clusters.map((cluster) => [cluster.id, cluster]));
  const change = (factor: number) => setZoom((before) => Math.min(ZOOM.most, Math.max(ZOOM.least, before * factor)));
  return (
    <figure className="graph-figure">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard */}
      <div className="graph-box" tabIndex={0} role="region" aria-label={T.graph}>
        <svg
          className="graph"
          style={{ width: `${zoom * 100}%`, maxHeight: zoom === 1 ? '62vh' : 'none' }}
          role="img"
          aria-label={T.graph}
          viewBox={`${-width / 2} ${-height / 2} ${width} ${height}`}
        >
          <Links links={links} places={places} active={active} known={known} labels={size === CARD} />
          {clusters.map((cluster) => {
            const at = places.get(cluster.id);
            if (!at) return null;
            return size === CARD ? (
              <Card key={cluster.id} cluster={cluster} at={at} />
            ) : (
              <SmallCard key={cluster.id} cluster={cluster} at={at} />
            );
          })}
        </svg>
      </div>
      <figcaption className="actions">
        <span className="legend">
          <span className="swatch swatch-used" /> {T.used} <span className="swatch swatch-promised" /> {T.promised}{' '}
          <span className="swatch swatch-free" /> {T.unused}
        </span>
        <button type="button" onClick={() => change(ZOOM.step)} disabled={zoom >= ZOOM.most}>
          {T.zoomIn}
        </button>
        <button type="button" onClick={() => change(1 / ZOOM.step)} disabled={zoom <= ZOOM.least}>
          {T.zoomOut}
        </button>
      </figcaption>
    </figure>
  );
}

/**
 * Links of the same state are one path: a mesh of 120 clusters has 7,140 of them. The round trip is written on the links of
 * this cluster.
 */
function Links({
  links,
  places,
  active,
  known,
  labels,
}: {
  links: readonly ClusterLink[];
  places: ReadonlyMap<string, Point>;
  active: ReadonlySet<string>;
  known: ReadonlyMap<string, ClusterNode>;
  labels: boolean;
}) {
  const drawn = links.flatMap((link) => {
    const [from, to] = [places.get(link.from), places.get(link.to)];
    if (!from || !to) return [];
    const isActive = active.has(link.to) && known.get(link.from)?.isSelf;
    const className = `link link-${toneOf(link.state)}${isActive ? ' link-active' : ''}`;
    return [{ ...link, className, line: `M${from.x} ${from.y}L${to.x} ${to.y}`, from, to, peer: known.get(link.to) }];
  });
  const byClass = Map.groupBy(drawn, ({ className }) => className);
  return (
    <>
      {[...byClass].map(([className, same]) => (
        <path key={className} className={className} d={same.map(({ line }) => line).join('')} />
      ))}
      {labels &&
        drawn.map(({ from, to, peer }) => {
          const roundTrip = peer?.known?.round_trip_ms;
          if (roundTrip === undefined || (from.x !== 0 && from.y !== 0)) return null;
          return (
            <text key={peer?.id} x={(from.x + to.x) / 2} y={(from.y + to.y) / 2 - 6} className="link-text">
              {T.milliseconds(roundTrip)}
            </text>
          );
        })}
    </>
  );
}

const worst = ({ problems, states, known }: ClusterNode) => {
  if (problems.length === 0) return 'good';
  const isBad = known?.problem !== undefined || states.some(({ state }) => toneOf(state) === 'bad');
  return isBad ? 'bad' : 'wait';
};

const shorten = (text: string, most: number) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function Card({ cluster, at }: { cluster: ClusterNode; at: Point }) {
  const { id, known, running, queued, problems, services } = cluster;
  const { cpu, memory, gpu } = known ?? {};
  const { width, height } = CARD;
  return (
    <g transform={`translate(${at.x - width / 2} ${at.y - height / 2})`} className="cluster">
      <title>{[id, ...problems].join('\n')}</title>
      <rect width={width} height={height} rx={10} className={`card card-${worst(cluster)}`} />
      <text x={12} y={22} className="card-name">
        {shorten(id, 22)}
      </text>
      {cpu && (
        <Bar y={32} resource={cpu} text={`${T.cpu} ${formatCores(cpu.total - cpu.free)} / ${formatCores(cpu.total)}`} />
      )}
      {memory && (
        <Bar
          y={49}
          resource={memory}
          text={`${formatBytes(memory.total - memory.free)} / ${formatBytes(memory.total)}`}
        />
      )}
      {gpu && gpu.total > 0 && <Bar y={66} resource={gpu} text={`${T.gpu} ${gpu.total - gpu.free} / ${gpu.total}`} />}
      {!cpu && (
        <text x={12} y={46} className="card-text">
          {problems.length > 0 ? '' : T.unknown}
        </text>
      )}
      <text x={12} y={94} className="card-text">
        {`${T.runningCount(running)}, ${T.queuedCount(queued)}`}
      </text>
      <text x={12} y={112} className={problems.length > 0 ? 'card-problem' : 'card-text'}>
        {shorten(problems[0] ?? services.join(', '), 30)}
      </text>
      {Array.from({ length: Math.min(running, 5) }, (_, index) => (
        <circle key={`job ${String(index)}`} cx={width - 14 - index * 9} cy={90} r={3.5} className="job-dot" />
      ))}
    </g>
  );
}

function SmallCard({ cluster, at }: { cluster: ClusterNode; at: Point }) {
  const { id, known, running, problems } = cluster;
  const { width, height } = SMALL_CARD;
  return (
    <g transform={`translate(${at.x - width / 2} ${at.y - height / 2})`} className="cluster">
      <title>{[id, ...problems].join('\n')}</title>
      <rect width={width} height={height} rx={8} className={`card card-${worst(cluster)}`} />
      <text x={8} y={18} className="card-name">
        {shorten(id, 16)}
      </text>
      {known?.cpu ? (
        <Bar y={27} x={8} width={width - 16} resource={known.cpu} text={running > 0 ? T.runningCount(running) : ''} />
      ) : (
        <text x={8} y={37} className={problems.length > 0 ? 'card-problem' : 'card-text'}>
          {shorten(problems[0] ?? T.unknown, 22)}
        </text>
      )}
    </g>
  );
}

function Bar({
  x = 12,
  y,
  width = CARD.width - 24,
  resource: { total, used, promised },
  text,
}: {
  x?: number;
  y: number;
  width?: number;
  resource: Resource;
  text: string;
}) {
  const share = (amount: number) => (total > 0 ? Math.min(1, amount / total) : 0) * width;
  return (
    <>
      <rect x={x} y={y} width={width} height={13} rx={3} className="bar" />
      <rect x={x} y={y} width={share(used + promised)} height={13} rx={3} className="bar-promised" />
      <rect
        x={x}
        y={y}
        width={share(used)}
        height={13}
        rx={3}
        className={used > 0.9 * total ? 'bar-full' : 'bar-used'}
      />
      <text x={x + 4} y={y + 10.5} className="bar-text">
        {text}
      </text>
    </>
  );
}

function extent(points: readonly Point[], { width, height }: CardSize): [number, number] {
  const most = (read: (point: Point) => number) => Math.max(...points.map((point) => Math.abs(read(point))), 0);
  return [2 * most(({ x }) => x) + width + 40, 2 * most(({ y }) => y) + height + 40];
}
