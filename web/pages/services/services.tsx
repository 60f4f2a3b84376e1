import { lazy, useMemo } from 'react';
import { type MemberState, useLive } from '../../api/live.ts';
import { membersOf, type Service, useServices } from '../../api/queries.ts';
import { Link } from '../../components/link.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { type TableColumn, VirtualTable } from '../../components/virtual-table.tsx';
import { setQuery, toPath, useLocation } from '../../lib/router.ts';
import { TEXTS } from '../../texts.ts';
import { ServicePage } from './service.tsx';

/** With its parser and form, larger than the rest of this page. */
const ServiceEditor = lazy(async () => ({ default: (await import('./service-editor.tsx')).ServiceEditor }));

const T = TEXTS.services;

export function ServicesPage({ path: [name] }: { path: readonly string[] }) {
  const { query } = useLocation();
  if (name !== undefined) return <ServicePage name={name} />;
  if (query.get('new') !== null) return <ServiceEditor />;
  return <ServiceList query={query} />;
}

/** The names of the filters in the address. */
const FILTERS = ['filter', 'owner', 'visibility', 'federation', 'state'] as const;
type Filters = Readonly<Record<(typeof FILTERS)[number], string>>;

function ServiceList({ query }: { query: URLSearchParams }) {
  const services = useServices();
  const { members } = useLive();
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ''])) as Filters;
  const rows = useMemo(
    () => (services.data ?? []).map((service) => ({ service, state: stateOf(service, members.values()) })),
    [services.data, members],
  );
  return (
    <>
      <h1>{T.title}</h1>
      <p className="filters">
        <input
          type="search"
          aria-label={T.filter}
          placeholder={T.filter}
          value={filters.filter}
          onChange={(event) => setQuery('filter', event.target.value)}
        />
        <FilterChoice
          name="owner"
          all={T.allOwners}
          label={T.owner}
          filters={filters}
          values={rows.map(({ service }) => service.owner)}
        />
        <FilterChoice
          name="visibility"
          all={T.allVisibilities}
          label={T.visibility}
          filters={filters}
          values={['private', 'restricted', 'public']}
        />
        <FilterChoice
          name="federation"
          all={T.allFederations}
          label={T.federation}
          filters={filters}
          values={[T.federated, T.plain]}
        />
        <FilterChoice
          name="state"
          all={T.allStates}
          label={T.state}
          filters={filters}
          values={rows.map(({ state }) => state)}
        />
        <Link to={toPath(['services'], { new: 'true' })} className="button primary">
          {T.create}
        </Link>
      </p>
      <Loaded query={services}>{() => <ServiceTable rows={rows} filters={filters} />}</Loaded>
    </>
  );
}

function FilterChoice({
  name,
  label,
  all,
  values,
  filters,
}: {
  name: keyof Filters;
  label: string;
  all: string;
  values: readonly string[];
  filters: Filters;
}) {
  const current = filters[name];
  const known = [...new Set([...values, ...(current === '' ? [] : [current])])].toSorted();
  return (
    <select aria-label={label} value={current} onChange={(event) => setQuery(name, event.target.value)}>
      <option value="">{all}</option>
      {known.map((value) => (
        <option key={value}>{value}</option>
      ))}
    </select>
  );
}

/** A service with its state: that of its worst replica. */
interface ServiceRow {
  readonly service: Service;
  readonly state: string;
}

const WORST_FIRST = ['conflict', 'unreachable', 'removed-by-owner', 'removing', 'pending'] as const;

function stateOf({ name }: Service, members: Iterable<MemberState>): string {
  const states = new Set([...members].filter(({ service }) => service === name).map(({ state }) => state));
  return WORST_FIRST.find((state) => states.has(state)) ?? 'ready';
}

function ServiceTable({ rows, filters }: { rows: readonly ServiceRow[]; filters: Filters }) {
  const shown = useMemo(() => rows.filter((row) => passes(row, filters)), [rows, filters]);
  if (shown.length === 0) return <p className="quiet">{rows.length === 0 ? T.empty : T.none}</p>;
  return <VirtualTable rows={shown} columns={COLUMNS} keyOf={({ service }) => service.name} label={T.title} />;
}

function passes({ service, state }: ServiceRow, filters: Filters): boolean {
  const { name, owner, image, visibility } = service;
  const federation = membersOf(service).length > 0 ? T.federated : T.plain;
  const exact = { owner, visibility, federation, state };
  return (
    `${name} ${owner} ${image}`.toLowerCase().includes(filters.filter.toLowerCase()) &&
    (Object.keys(exact) as (keyof typeof exact)[]).every((key) => filters[key] === '' || filters[key] === exact[key])
  );
}

const COLUMNS: readonly TableColumn<ServiceRow>[] = [
  { title: T.name, cell: ({ service: { name } }) => <Link to={toPath(['services', name])}>{name}</Link> },
  { title: T.state, cell: ({ state }) => <StateBadge state={state} /> },
  { title: T.federation, cell: ({ service }) => federationText(service) },
  { title: T.visibility, cell: ({ service }) => service.visibility },
  { title: T.owner, cell: ({ service }) => service.owner },
  { title: T.image, cell: ({ service }) => service.image, className: 'wide' },
];

function federationText(service: Service): string {
  const members = membersOf(service);
  return members.length === 0 ? T.plain : T.members(members.length, service.federation?.topology ?? 'star');
}
