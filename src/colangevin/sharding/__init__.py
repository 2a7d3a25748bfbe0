"""Steps of parameters that several processes hold in parts (DTensors). Imported only where there is one."""
