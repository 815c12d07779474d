variable "region" {
  description = "AWS region, for messages."
  type        = string
}

variable "instance_types" {
  description = "EC2 instance type of each role."
  type        = map(string)
}

variable "zone_count" {
  description = "Number of availability zones to choose."
  type        = number
}

variable "zones" {
  description = "Availability zones to use, as many as zone_count; empty to have them chosen."
  type        = list(string)
}
