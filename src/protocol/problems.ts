/** What is wrong with a request, and where. */
import { errno, ServiceError, type InvalidPart } from '../domain/errors.ts'

/** One problem with a request. `description` never quotes a value that could be secret. */
export interface Problem {
  location: 'body' | 'querystring' | 'path' | 'header'
  name: string
  description: string
}

interface ErrorOptions {
  status?: number
  headers?: Record<string, string>
}

/** An error response that lists all problems, sorted by location and name. 400 unless `status` says otherwise. */
export function invalidRequest(
  problems: Problem[],
  { status = 400, headers }: ErrorOptions = {},
): ServiceError {
  const placeOf = (problem: Problem) => `${problem.location} ${problem.name}`
  const details = problems.toSorted((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1))
  const { location, name, description } = details[0]!
  const number = location === 'header' ? errno.invalidHeader : errno.invalidParameters
  const place = name === location ? name : `${name} in ${location}`
  return new ServiceError(status, number, `${place}: ${description}`, { details, headers })
}

/** The same for a single problem. */
export function invalid(
  location: Problem['location'],
  name: string,
  description: string,
  options?: ErrorOptions,
): ServiceError {
  return invalidRequest([{ location, name, description }], options)
}

const places: Record<InvalidPart, Pick<Problem, 'location' | 'name'>> = {
  page: { location: 'querystring', name: '_token' },
  list: { location: 'querystring', name: '_since' },
  record: { location: 'path', name: 'record_id' },
  upload: { location: 'body', name: 'data' },
  'media-type': { location: 'header', name: 'Content-Type' },
  coding: { location: 'header', name: 'Content-Encoding' },
  body: { location: 'body', name: 'body' },
}

/** The same error, with the place of the invalid part in the request. */
export function placed(error: ServiceError): ServiceError {
  const { status, message, extras } = error
  if (extras.invalid === undefined) return error
  return invalidRequest([{ ...places[extras.invalid], description: message }], {
    status,
    headers: extras.headers,
  })
}
