"""All scenarios of `make bench`, in the order in which they run and stand on the page."""
import door_scenarios
import engine_scenarios
import graph_scenarios
import heap_scenarios
import lookup_scenarios
import ranks_scenarios
import remote_scenarios
import service_scenarios
import simulation_scenarios
import sort_scenarios
import untuned_scenarios
import vector_scenarios

SCENARIOS = {scenario.name: scenario for part in
             (engine_scenarios, sort_scenarios, graph_scenarios, lookup_scenarios, service_scenarios,
              door_scenarios, heap_scenarios, vector_scenarios, simulation_scenarios, remote_scenarios,
              ranks_scenarios, untuned_scenarios)
             for scenario in part.SCENARIOS}
