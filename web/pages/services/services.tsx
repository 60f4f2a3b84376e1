import { useMemo } from 'react';
import { membersOf, type Service, useServices } from '../../api/queries.ts';
import { Link } from '../../components/link.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { type TableColumn, VirtualTable } from '../../components/virtual-table.tsx';
import { setQuery, toPath, useLocation } from '../../lib/router.ts';
import { TEXTS } from '../../texts.ts';
import { ServicePage } from './service.tsx';
import { ServiceEditor } from './service-editor.tsx';

const T = TEXTS.services;

export function ServicesPage({ path: [name] }: { path: readonly string[] }) {
  const { query } = useLocation();
  if (name !== undefined) return <ServicePage name={name} />;
  if (query.get('new') !== null) return <ServiceEditor />;
  return <ServiceList filter={query.get('filter') ?? ''} />;
}

function ServiceList({ filter }: { filter: string }) {
  const services = useServices();
  return (
    <>
      <h1>{T.title}</h1>
      <p className="filters">
        <input
          type="search"
          aria-label={T.filter}
          placeholder={T.filter}
          value={filter}
          onChange={(event) => setQuery('filter', event.target.value)}
        />
        <Link to={toPath(['services'], { new: 'true' })} className="button primary">
          {T.create}
        </Link>
      </p>
      <Loaded query={services}>{(list) => <ServiceTable services={list} filter={filter} />}</Loaded>
    </>
  );
}

function ServiceTable({ services, filter }: { services: readonly Service[]; filter: string }) {
  const shown = useMemo(() => {
    const wanted = filter.toLowerCase();
    return services.filter(({ name, owner, image }) => `${name} ${owner} ${image}`.toLowerCase().includes(wanted));
  }, [services, filter]);
  if (shown.length === 0) return <p className="quiet">{services.length === 0 ? T.empty : T.none}</p>;
  return <VirtualTable rows={shown} columns={COLUMNS} keyOf={({ name }) => name} label={T.title} />;
}

const COLUMNS: readonly TableColumn<Service>[] = [
  { title: T.name, cell: ({ name }) => <Link to={toPath(['services', name])}>{name}</Link> },
  { title: T.federation, cell: (service) => federationText(service) },
  { title: T.visibility, cell: ({ visibility }) => visibility },
  { title: T.owner, cell: ({ owner }) => owner },
  { title: T.image, cell: ({ image }) => image, className: 'wide' },
];

function federationText(service: Service): string {
  const members = membersOf(service);
  return members.length === 0 ? T.plain : T.members(members.length, service.federation?.topology ?? 'star');
}
